// RUN: vk-opt '--apply-plan{tiles="i=1" chunks="j=1024" multiples="N=16" aligned="x" lanes=j distinct=true}' --expand-math --insert-barriers --lower-to-ttir %s | filecheck %s
// What Triton needs to see wide loads: divisibility on the parameters, starts of programs and chunks added to the
// pointer as one scalar, small offsets within the tile; no mask in the loop over full chunks, one in the tail.

vk.kernel @softmax(%x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.whole j < %N
  %row = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %max = vk.max %row along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
  %mb = vk.broadcast %max : tensor<?xf32, #vk.axes<i>> -> tensor<?x?xf32, #vk.axes<i, j>>
  %d = arith.subf %row, %mb : tensor<?x?xf32, #vk.axes<i, j>>
  %e = math.exp %d : tensor<?x?xf32, #vk.axes<i, j>>
  %sum = vk.sum %e along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
  %sb = vk.broadcast %sum : tensor<?xf32, #vk.axes<i>> -> tensor<?x?xf32, #vk.axes<i, j>>
  %q = arith.divf %e, %sb : tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %q in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}

// CHECK:      "tt.func"() <{sym_name = "softmax_launch_0",
// CHECK-SAME:   arg_attrs = [{tt.divisibility = 16 : i32}, {tt.divisibility = 4 : i32}, {tt.divisibility = 4 : i32}, {}, {}, {}, {tt.divisibility = 16 : i32}]
// CHECK-NEXT: ^bb0(%x: !tt.ptr<f32>, %{{.*}}: i32, %{{.*}}: i32, %out: !tt.ptr<f32>, %{{.*}}: i32, %{{.*}}: i32, %N: i64):
// CHECK:        [[RANGE:%[0-9]+]] = "tt.make_range"() <{start = 0 : i32, end = 1024 : i32}>
// CHECK:        [[ID:%[0-9]+]] = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
// CHECK-NEXT:   %{{[a-z0-9_]+}} = arith.extsi [[ID]] : i32 to i64
// CHECK:        scf.for %j0 =
// CHECK:          [[START:%[0-9]+]] = arith.addi %{{.*}}, %{{.*}} : i64
// CHECK-NEXT:     [[CHUNK:%[0-9]+]] = "tt.addptr"(%x, [[START]]) : (!tt.ptr<f32>, i64) -> !tt.ptr<f32>
// CHECK-NEXT:     "tt.splat"([[CHUNK]])
// CHECK:          arith.muli [[RANGE]], %{{.*}} : tensor<1024xi32>
// CHECK:          "tt.load"(%{{[0-9]+}}) <{operandSegmentSizes = array<i32: 1, 0, 0>}>
// CHECK-NEXT:     arith.maximumf
// CHECK-NEXT:     scf.yield
// CHECK:        scf.if
// CHECK:          arith.cmpi slt, [[RANGE]], %{{.*}} : tensor<1024xi32>
// CHECK:          "tt.load"(%{{[0-9]+}}, %{{[0-9]+}}, %{{[0-9]+}}) <{operandSegmentSizes = array<i32: 1, 1, 1>}>
// CHECK:        "tt.reduce"(%{{.*}}) <{axis = 1 : i32}> ({
// CHECK:          arith.maximumf
// CHECK:        math.fma
// CHECK-NOT:    arith.divf
// CHECK:        "tt.precise_divf"
