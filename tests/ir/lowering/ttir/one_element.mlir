// RUN: vk-opt --lower-to-ttir %s | filecheck %s
// An index tile of one element moves the base as a scalar, in i64: offsets within the tile do not depend on it, so that
// loops compute them once. Guards compare positions with scalar bounds.

vk.mapped @one_element(%x: !vk.tensor<[N], f32>, %at: !vk.tensor<[M], i64>, %out: !vk.tensor<[M, N], f32>) facts {sizes = {}, multiples = {}, strides = {x = [1], at = [1], out = [-1, 1]}, large = []} {
  %N = vk.size N
  %c1 = arith.constant 1 : i64
  %c64 = arith.constant 64 : i64
  vk.launch "one_element" over (%p = %c1) {
    %first = vk.load %at[i] : !vk.tensor<[M], i64> -> tensor<1xi64, #vk.axes<i>>
    %far = vk.broadcast %c64 : i64 -> tensor<1xi64, #vk.axes<i>>
    %next = arith.addi %first, %far : tensor<1xi64, #vk.axes<i>>
    %v = vk.gather %x[%next + j] guarding [0] : !vk.tensor<[N], f32>, (tensor<1xi64, #vk.axes<i>>) -> tensor<1x8xf32, #vk.axes<i, j>>
    vk.store %v in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<1x8xf32, #vk.axes<i, j>>
  }
}

// CHECK:      %first = "tt.load"
// CHECK:      [[ONE:%[0-9]+]] = "tt.unsplat"(%first) : (tensor<1xi64>) -> i64
// CHECK-NEXT: [[START:%[0-9]+]] = arith.addi [[ONE]], %{{.*}} : i64
// CHECK:      arith.cmpi slt, {{.*}} : tensor<8xi32>
// CHECK-NOT:  tensor<1x8xi64>
// CHECK:      "tt.addptr"(%x, [[START]]) : (!tt.ptr<f32>, i64) -> !tt.ptr<f32>
// CHECK:      %v = "tt.load"
