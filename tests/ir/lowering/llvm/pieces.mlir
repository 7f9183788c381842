// RUN: vk-opt %s | lower-to-llvm | filecheck %s
// A tile of 10 f32 is a register of 8 and one of 2: the lane axis in pieces whose widths are powers of two.

vk.mapped @double(%x: !vk.tensor<[N], f32>, %out: !vk.tensor<[N], f32>) lanes i facts {sizes = {N = 10}, multiples = {}, strides = {x = [1], out = [1]}, distinct} {
  %c1 = arith.constant 1 : i64
  vk.launch "double" over (%p = %c1) {
    %a = vk.load %x[i] : !vk.tensor<[N], f32> -> tensor<10xf32, #vk.axes<i>>
    %s = arith.addf %a, %a : tensor<10xf32, #vk.axes<i>>
    vk.store %s in %out[i] : !vk.tensor<[N], f32> <- tensor<10xf32, #vk.axes<i>>
  }
}

// CHECK:      llvm.func internal @double_launch_0_body(%slot0: !llvm.ptr {llvm.noalias}, %slot2: !llvm.ptr {llvm.noalias}
// CHECK:      [[A:%[0-9]+]] = llvm.load %slot0 {alignment = 4 : i64} : !llvm.ptr -> vector<8xf32>
// CHECK-NEXT: [[AT:%[0-9]+]] = llvm.getelementptr %slot0[8] : (!llvm.ptr) -> !llvm.ptr, f32
// CHECK-NEXT: [[B:%[0-9]+]] = llvm.load [[AT]] {alignment = 4 : i64} : !llvm.ptr -> vector<2xf32>
// CHECK-NEXT: [[SUM:%[0-9]+]] = arith.addf [[A]], [[A]] fastmath<contract> : vector<8xf32>
// CHECK-NEXT: [[REST:%[0-9]+]] = arith.addf [[B]], [[B]] fastmath<contract> : vector<2xf32>
// CHECK-NEXT: llvm.store [[SUM]], %slot2 {alignment = 4 : i64} : vector<8xf32>, !llvm.ptr
