builtin.module {
  vk.kernel @control(%x: !vk.tensor<[N], f32>, %n: i64, %out: !vk.tensor<[N], f32>, %steps: !vk.tensor<[2], i64>) {
    %N = vk.size N
    vk.tile i < %N
    %y = vk.load %x[i] : !vk.tensor<[N], f32> -> tensor<?xf32, #vk.axes<i>>
    %0 = arith.constant 0 : i64
    %n_1, %count = scf.while (%n_2 = %n, %count_1 = %0) : (i64, i64) -> (i64, i64) {
      %1 = arith.constant 1 : i64
      %2 = arith.cmpi sgt, %n_2, %1 : i64
      %3 = arith.constant 100 : i64
      %4 = arith.cmpi slt, %count_1, %3 : i64
      %5 = arith.andi %2, %4 : i1
      scf.condition(%5) %n_2, %count_1 : i64, i64
    } do {
    ^bb0(%n_3: i64, %count_2: i64):
      %6 = arith.constant 2 : i64
      %7 = arith.remsi %n_3, %6 : i64
      %8 = arith.xori %7, %6 : i64
      %9 = arith.constant 0 : i64
      %10 = arith.cmpi ne, %7, %9 : i64
      %11 = arith.cmpi slt, %8, %9 : i64
      %12 = arith.andi %10, %11 : i1
      %13 = arith.addi %7, %6 : i64
      %14 = arith.select %12, %13, %7 : i64
      %15 = arith.cmpi eq, %14, %9 : i64
      %n_4 = scf.if %15 -> (i64) {
        %n_5 = arith.floordivsi %n_3, %6 : i64
        scf.yield %n_5 : i64
      } else {
        %16 = arith.constant 3 : i64
        %17 = arith.muli %16, %n_3 : i64
        %18 = arith.constant 1 : i64
        %n_6 = arith.addi %17, %18 : i64
        scf.yield %n_6 : i64
      }
      %19 = arith.constant 1 : i64
      %count_3 = arith.addi %count_2, %19 : i64
      scf.yield %n_4, %count_3 : i64, i64
    }
    %20 = arith.constant 5 : i64
    %21 = arith.cmpi sgt, %count, %20 : i64
    %y_1, %label = scf.if %21 -> (tensor<?xf32, #vk.axes<i>>, f64) {
      %22 = arith.constant 2.000000e+00 : f32
      %23 = vk.broadcast %22 : f32 -> tensor<?xf32, #vk.axes<i>>
      %y_2 = arith.mulf %y, %23 : tensor<?xf32, #vk.axes<i>>
      %24 = arith.constant 1.000000e+00 : f64
      scf.yield %y_2, %24 : tensor<?xf32, #vk.axes<i>>, f64
    } else {
      %25 = arith.constant 2 : i64
      %26 = arith.cmpi sgt, %count, %25 : i64
      %27 = arith.constant true
      %28 = arith.xori %26, %27 : i1
      %label_1 = scf.if %28 -> (f64) {
        %29 = arith.constant 2.000000e+00 : f64
        scf.yield %29 : f64
      } else {
        %30 = arith.sitofp %count : i64 to f64
        scf.yield %30 : f64
      }
      scf.yield %y, %label_1 : tensor<?xf32, #vk.axes<i>>, f64
    }
    %31 = arith.truncf %label : f64 to f32
    %32 = vk.broadcast %31 : f32 -> tensor<?xf32, #vk.axes<i>>
    %33 = arith.addf %y_1, %32 : tensor<?xf32, #vk.axes<i>>
    vk.store %33 in %out[i] : !vk.tensor<[N], f32> <- tensor<?xf32, #vk.axes<i>>
    vk.store %count in %steps[%0] : !vk.tensor<[2], i64> <- i64
    %34 = arith.cmpi sgt, %count, %20 : i64
    %35 = arith.constant 3 : i64
    %36 = arith.cmpi sgt, %n_1, %35 : i64
    %37 = arith.ori %34, %36 : i1
    %38 = scf.if %37 -> (i64) {
      %39 = arith.constant 7 : i64
      scf.yield %39 : i64
    } else {
      %40 = vk.load %x[%0] guarding [0] : !vk.tensor<[N], f32> -> f32
      %41 = arith.fptosi %40 : f32 to i64
      scf.yield %41 : i64
    }
    %42 = arith.constant 1 : i64
    vk.store %38 in %steps[%42] : !vk.tensor<[2], i64> <- i64
  }
}
